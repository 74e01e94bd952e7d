# Third-party libraries, and the modules that use them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)

function(td_module_extras_tape target)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_C)
endfunction()

# A fuzzer does not guess checksums: its build of the reader does without them.
function(td_module_extras_hdf5 target)
    if(TAPEDECK_FUZZ)
        target_compile_definitions(${target} PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
    endif()
endfunction()
