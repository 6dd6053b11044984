#!/usr/bin/env bash
# run.sh WAY SOURCE BUILD SCRATCH: a program of its own uses attune in one way, is built and run.
set -euo pipefail
way=$1 source=$2 build=$3 scratch=$4
rm -rf "$scratch" && mkdir -p "$scratch"
trap 'rm -rf "$scratch"' EXIT
export ATTUNE_CACHE_DIR=$scratch/cache
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

install_elsewhere() {  # what is installed must not need the folder that it was installed to
  cmake --install "$build" --prefix "$scratch/first" >/dev/null
  mv "$scratch/first" "$scratch/moved dir"
}
use_cmake() {
  cmake -S "$source/tests/packaging/$way" -B "$scratch/out" -G Ninja "${launcher[@]}" "$@" >/dev/null
  ninja -C "$scratch/out" consumer | tail -1
  "$scratch/out/consumer"
}

case $way in
  installed)
    install_elsewhere
    "$scratch/moved dir/bin/attune" check std:causal
    use_cmake "-DCMAKE_PREFIX_PATH=$scratch/moved dir" ;;
  pkgconfig)
    install_elsewhere
    ln -s "moved dir" "$scratch/moved"
    export PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(echo "$scratch"/moved/lib*/pkgconfig "$scratch"/moved/lib*/*/pkgconfig | tr ' ' '\n' | grep -v '\*' | paste -sd:)
    read -ra flags < <(pkg-config --cflags --libs attune)
    "${CXX:-c++}" -std=c++20 "$source/tests/packaging/main.cxx" "${flags[@]}" -o "$scratch/consumer"
    "$scratch/consumer" ;;
  subdirectory | fetched)
    # Unoptimised: what counts is that it configures, builds and links.
    use_cmake "-DATTUNE_SOURCE=$source" -DCMAKE_BUILD_TYPE=Debug ;;
  *) echo "unknown way: $way" >&2; exit 2 ;;
esac
