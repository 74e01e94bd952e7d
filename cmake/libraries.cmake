# Third-party libraries, and the modules that use them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)


# A fuzzer does not guess checksums: its build of the reader does without them.
function(td_module_extras_hdf5 target)
    if(TAPEDECK_FUZZ)
        target_compile_definitions(${target} PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
    endif()
endfunction()
function(td_module_extras_tensorflow target)
    td_module_extras_hdf5(${target})
endfunction()

# The page of the viewer: the files of web/, compressed, as C. Modules in the order they need each
# other.
set(TD_WEB_MODULES dom.js format.js colour.js source.js state.js surface.js export.js time.js
    chart.js heat.js layers.js runs.js tensor.js layer.js network.js triggers.js examples.js compare.js
    findings.js recorder.js app.js)
function(td_module_extras_view target)
    add_executable(embed ${CMAKE_SOURCE_DIR}/cmake/embed.c)
    target_link_libraries(embed PRIVATE PkgConfig::ZLIB)
    list(TRANSFORM TD_WEB_MODULES PREPEND ${CMAKE_SOURCE_DIR}/web/ OUTPUT_VARIABLE files)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/page.c
        COMMAND embed ${CMAKE_BINARY_DIR}/page.c ${CMAKE_SOURCE_DIR}/web ${TD_WEB_MODULES}
        DEPENDS embed ${files} ${CMAKE_SOURCE_DIR}/web/index.html ${CMAKE_SOURCE_DIR}/web/app.css
                ${CMAKE_SOURCE_DIR}/web/icon.svg)
    target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/page.c)
endfunction()
