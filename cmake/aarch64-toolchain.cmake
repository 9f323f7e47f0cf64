# Debian's cross compiler with the :arm64 libraries beside those of the building machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# libc6:arm64 puts the loader where the programs look for it, so the emulator needs no -L.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# The build machine's own .pc files name the wrong libraries.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
