#!/usr/bin/env bash
# Installs a build into an empty prefix, builds examples/ against what is there, and runs it on a
# random model made by the installed program: install_test.sh SOURCE_FOLDER BUILD_FOLDER CXX
set -euo pipefail
source=$1 build=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$source/examples" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/examples"

# Nothing that was installed may point back into the source or build folder.
if grep -rIl -e "$source" -e "$build" "$work/prefix"; then
  echo "these installed files name the folders they were built in" >&2
  exit 1
fi

"$work/prefix/bin/fathom" --version
"$work/prefix/bin/fathom" synth --config "$source/models/random/config.json" \
  --out "$work/model" --seed 3
for file in "$source"/models/random/*; do
  [[ -f $work/model/${file##*/} ]] || cp "$file" "$work/model/"
done

ask=$work/examples/ask
"$ask" "$work/model" 'What is "47+85"?' 12 2>"$work/stderr" | tee "$work/stdout"
cat "$work/stderr"
grep -q ' tokens, ended by ' "$work/stderr"

# The same seed and question give the same tokens, and wrong use is an error and no crash.
"$ask" "$work/model" 'What is "47+85"?' 12 2>"$work/stderr2" >"$work/stdout2"
cmp "$work/stdout" "$work/stdout2"
cmp "$work/stderr" "$work/stderr2"
status=0
"$ask" "$work/nowhere" 'Anyone?' 2>"$work/stderr3" || status=$?
[[ $status == 1 ]]
grep -q "$work/nowhere" "$work/stderr3"
echo "the installed library works"
