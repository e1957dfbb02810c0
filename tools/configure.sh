#!/usr/bin/env bash
# Configures build/PRESET, quietly: configure.sh PRESET. Does nothing where that is done; starts afresh where the build
# folder comes from another place (a moved or renamed clone), which CMake refuses.
set -euo pipefail
preset=$1
build="build/$preset"
if [ -f "$build/build.ninja" ] && grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$build/CMakeCache.txt"; then exit 0; fi
rm -rf "$build"
mkdir -p build
if ! cmake --preset "$preset" >"build/configure-$preset.log" 2>&1; then
    tail -n 20 "build/configure-$preset.log" >&2
    echo "pacer: cmake failed; its whole output is in build/configure-$preset.log" >&2
    exit 1
fi
