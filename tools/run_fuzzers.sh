#!/usr/bin/env bash
# Runs every fuzz target in a folder for some seconds each, from its saved corpus, one on each CPU. A finding fails it,
# with the target's report.
set -euo pipefail
folder=$1
export seconds=$2
source_dir=$(cd "$(dirname "$0")/.." && pwd)
export corpora=$source_dir/tests/fuzz/corpus

fuzz() {
  name=$(basename "$1" _fuzz)
  work=$(mktemp -d)
  mkdir "$work/corpus"
  corpus=("$work/corpus")
  [ -d "$corpora/$name" ] && corpus+=("$corpora/$name")
  if ASAN_OPTIONS=detect_leaks=0 "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$work/" "${corpus[@]}" > "$work/log" 2>&1; then
    echo "fuzzed $name for $seconds s: $(grep -m1 number_of_executed_units "$work/log")"
    rm -rf "$work"
  else
    tail -n 60 "$work/log"
    echo "fuzzing $name failed: $work holds the log and the input"
    return 1
  fi
}
export -f fuzz

targets=("$folder"/*_fuzz)
[ -e "${targets[0]}" ] || { echo "no fuzz target in $folder" >&2; exit 1; }
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz "$1"' fuzz
echo "${#targets[@]} fuzz targets clean"
