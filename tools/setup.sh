#!/usr/bin/env bash
# Installs the Debian packages that are missing: `setup.sh build` for building and running, `setup.sh test` for all tests
# (which also get the official API clients and Playwright, in build/venv; the browser is Debian's).
set -euo pipefail

build_packages=(g++ cmake ninja-build make python3 python3-pip libhwloc-dev libboost1.81-dev libssl-dev)
test_packages=("${build_packages[@]}" libgtest-dev libbenchmark-dev python3-jinja2 python3-numpy python3-venv curl
  chromium clang-14 clang-format-14 libclang-rt-14-dev lld-14 wabt libopenblas-dev)

case "${1:-build}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${test_packages[@]}") ;;
  *) echo "usage: setup.sh build|test" >&2; exit 2 ;;
esac

# The server's tests talk to it with its users' clients, and look at its page. Without a network they are left out.
make_venv() {
  cd "$(dirname "$0")/.."
  [ -x build/venv/bin/llm ] && [ -x build/venv/bin/playwright ] && return
  echo "setup: API clients and Playwright into build/venv" >&2
  { python3 -m venv build/venv && build/venv/bin/pip install -q openai anthropic llm playwright; } ||
    { rm -rf build/venv; echo "setup: no API clients and no Playwright, the tests that need them are left out" >&2; }
}

if ! command -v dpkg-query > /dev/null; then
  echo "setup: not a Debian-like system; these are needed: ${packages[*]}" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  [ "${1:-build}" = test ] && make_venv
  exit 0
fi

echo "setup: installing ${missing[*]}" >&2
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
[ "${1:-build}" = test ] && make_venv
exit 0
