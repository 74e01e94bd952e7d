# A toolchain for another processor, as Debian packages it, or for this one with another system's libraries;
# ./dev portability and ./dev wheel use it.
#
#   cmake --toolchain cmake/cross.cmake -DTD_CROSS=aarch64 -DTD_SYSROOT=FOLDER …
#
# FOLDER holds the libraries. What is built for another processor runs under qemu.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TD_CROSS TD_SYSROOT)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TD_CROSS})
set(CMAKE_SYSROOT ${TD_SYSROOT})
# The compiler has folders of its own for the C library, which would come first.
foreach(kind IN ITEMS EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT -B${TD_SYSROOT}/usr/lib/${TD_CROSS}-linux-gnu)
endforeach()
set(CMAKE_C_COMPILER ${TD_CROSS}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${TD_CROSS}-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${TD_CROSS}-linux-gnu)
if(NOT TD_CROSS STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${TD_CROSS}-static -L ${TD_SYSROOT})
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TD_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${TD_SYSROOT}/usr/lib/${TD_CROSS}-linux-gnu/pkgconfig:${TD_SYSROOT}/usr/share/pkgconfig)
