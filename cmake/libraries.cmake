# Third-party libraries, and the modules that use them.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
set(TD_PACKAGES SQLITE=sqlite3 PNG=libpng TURBOJPEG=libturbojpeg ZLIB=zlib YAML=yaml-0.1 JANSSON=jansson)
foreach(library IN LISTS TD_PACKAGES)
    string(REGEX MATCH "^(.*)=(.*)$" library ${library})
    pkg_check_modules(${CMAKE_MATCH_1} REQUIRED IMPORTED_TARGET ${CMAKE_MATCH_2})
endforeach()
list(TRANSFORM TD_PACKAGES REPLACE "^.*=" "" OUTPUT_VARIABLE TD_PACKAGE_NAMES)
list(JOIN TD_PACKAGE_NAMES ", " TD_PACKAGE_NAMES)


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
set(TD_WEB_MODULES format.js dom.js colour.js source.js state.js surface.js export.js sight.js time.js
    choices.js boards.js chart.js heat.js verdict.js replay.js branches.js layers.js filter.js columns.js overlay.js sweep.js runs.js projection.js tensor.js
    distributions.js panels.js layer.js transformer.js network.js triggers.js examples.js media.js compare.js
    findings.js tracks.js recorder.js ranks.js origin.js diff.js app.js)
function(td_module_extras_answers target)
    add_executable(embed ${CMAKE_SOURCE_DIR}/cmake/embed.c)
    target_link_libraries(embed PRIVATE PkgConfig::ZLIB)
    list(TRANSFORM TD_WEB_MODULES PREPEND ${CMAKE_SOURCE_DIR}/web/ OUTPUT_VARIABLE files)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/page.c
        COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:embed> ${CMAKE_BINARY_DIR}/page.c ${CMAKE_SOURCE_DIR}/web ${TD_WEB_MODULES}
        DEPENDS embed ${files} ${CMAKE_SOURCE_DIR}/web/index.html ${CMAKE_SOURCE_DIR}/web/app.css
                ${CMAKE_SOURCE_DIR}/web/icon.svg)
    target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/page.c)
endfunction()
