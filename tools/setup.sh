#!/usr/bin/env bash
# Installs the Debian packages that are missing: `setup.sh build` for building and running, `setup.sh test` for all tests.
set -euo pipefail

build_packages=(g++ cmake ninja-build make python3 python3-pip libhwloc-dev libboost1.81-dev libssl-dev)
test_packages=("${build_packages[@]}" libgtest-dev libbenchmark-dev python3-jinja2 python3-numpy
  clang-14 clang-format-14 libclang-rt-14-dev lld-14 wabt libopenblas-dev)

case "${1:-build}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${test_packages[@]}") ;;
  *) echo "usage: setup.sh build|test" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null; then
  echo "setup: not a Debian-like system; these are needed: ${packages[*]}" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}" >&2
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
