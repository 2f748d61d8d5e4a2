#!/usr/bin/env bash
# Runs every fuzz target in a folder for some seconds each, from its saved corpus. Stops at the first finding.
set -euo pipefail
folder=$1
seconds=$2
source_dir=$(cd "$(dirname "$0")/.." && pwd)
ran=0
for target in "$folder"/*_fuzz; do
  name=$(basename "$target" _fuzz)
  work=$(mktemp -d)
  corpus=("$work")
  [ -d "$source_dir/tests/fuzz/corpus/$name" ] && corpus+=("$source_dir/tests/fuzz/corpus/$name")
  echo "fuzzing $name for $seconds s"
  ASAN_OPTIONS=detect_leaks=0 "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$work/" "${corpus[@]}" 2>&1 | tail -n 12
  rm -rf "$work"
  ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || { echo "no fuzz target in $folder" >&2; exit 1; }
echo "$ran fuzz targets clean"
