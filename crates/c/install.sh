#!/bin/sh
# Installs the C library from a build directory into a prefix, in the layout of cargo-c:
#
#     cargo build --profile dist -p flashlab-c && crates/c/install.sh target/dist /usr/local
#
# PREFIX/include/flashlab.h, PREFIX/lib/libflashlab.{a,so}, PREFIX/lib/pkgconfig/flashlab.pc. The installed files do not
# contain the prefix, so they may be moved together.
set -eu

if [ $# != 2 ]; then
    echo "usage: install.sh BUILD_DIRECTORY PREFIX" >&2
    exit 2
fi
build=$1 prefix=$2 here=$(dirname "$0")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
for library in libflashlab.a libflashlab.so; do
    if [ ! -f "$build/$library" ]; then
        echo "install.sh: $build has no $library; build it: cargo build --profile dist -p flashlab-c" >&2
        exit 1
    fi
done

install -d "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 "$here/include/flashlab.h" "$prefix/include/"
install -m 644 "$build/libflashlab.a" "$prefix/lib/"
install -m 755 "$build/libflashlab.so" "$prefix/lib/libflashlab.so.$version"
# Programs find the library by the name in build.rs, with major and minor version. The linker uses the name without a version.
ln -sf "libflashlab.so.$version" "$prefix/lib/libflashlab.so.${version%.*}"
ln -sf "libflashlab.so.${version%.*}" "$prefix/lib/libflashlab.so"
# `rustc --print native-static-libs` gives the private libraries.
cat >"$prefix/lib/pkgconfig/flashlab.pc" <<PC
prefix=\${pcfiledir}/../..
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: flashlab
Description: Virtual block devices and SD cards for the tests of firmware, drivers and filesystems
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lflashlab
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
PC
