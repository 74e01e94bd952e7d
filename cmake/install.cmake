# cmake --install and cpack: the library, shared and static, its headers and how to find them, the
# program, its man page and the shells' completions. Three components, a Debian package each.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What a build of the program alone (./dev demo) left out is built now: nothing is installed half.
set(wanted tapedeck tapedeck_static)
get_property(plugins GLOBAL PROPERTY TD_PLUGINS)
list(APPEND wanted ${plugins})
if(TARGET tapedeck_program)
    list(APPEND wanted tapedeck_program)
    if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
        list(APPEND wanted tapedeck_pages)
    endif()
endif()
string(REPLACE ";" " " wanted_words "${wanted}")
install(CODE "
    if(NOT EXISTS \"$<TARGET_FILE:tapedeck_static>\" OR NOT EXISTS \"${CMAKE_BINARY_DIR}/pages/tapedeck.1\")
        execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target ${wanted_words}
                        COMMAND_ERROR_IS_FATAL ANY)
    endif()" ALL_COMPONENTS)

# --- the library ---
install(TARGETS tapedeck EXPORT tapedeck
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
# Those of an MPI are packages of their own: nobody needs both, and most need none.
set(TD_MPI_COMPONENTS "")
foreach(plugin IN LISTS plugins)
    set(component library)
    if(plugin MATCHES "^tapedeck_mpi-(.*)$")
        set(component mpi_${CMAKE_MATCH_1})
        list(APPEND TD_MPI_COMPONENTS ${CMAKE_MATCH_1})
    endif()
    set_target_properties(${plugin} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component})
endforeach()

# --- what programs are built with: headers, the static library, find_package, pkg-config ---
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tapedeck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development FILES_MATCHING PATTERN "*.h")
install(TARGETS tapedeck_static EXPORT tapedeck_static
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tapedeck)
install(EXPORT tapedeck NAMESPACE tapedeck:: FILE tapedeckShared.cmake DESTINATION ${package_folder}
        COMPONENT development)
install(EXPORT tapedeck_static NAMESPACE tapedeck:: FILE tapedeckStatic.cmake DESTINATION ${package_folder}
        COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/packaging/tapedeckConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/tapedeckConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tapedeckConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tapedeckConfig.cmake ${CMAKE_BINARY_DIR}/tapedeckConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)

# pkg-config's files say where things are relative to themselves, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
foreach(name IN ITEMS tapedeck tapedeck-static)
    configure_file(${CMAKE_SOURCE_DIR}/packaging/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
            COMPONENT development)
endforeach()

# --- the program ---
if(TARGET tapedeck_program)
    # The program finds the library beside itself, whatever the prefix.
    file(RELATIVE_PATH libraries_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(tapedeck_program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_bin}")
    install(TARGETS tapedeck_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()

# The program writes its own man page and completions; where it cannot be run, they are left out.
if(TARGET tapedeck_program AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    set(pages ${CMAKE_BINARY_DIR}/pages)
    function(td_page name folder)
        add_custom_command(OUTPUT ${pages}/${name}
                           COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
                           COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 ${CMAKE_CROSSCOMPILING_EMULATOR}
                                   $<TARGET_FILE:tapedeck_program> ${ARGN} > ${pages}/${name}
                           DEPENDS tapedeck_program VERBATIM)
        install(FILES ${pages}/${name} DESTINATION ${folder} COMPONENT program)
        set_property(GLOBAL APPEND PROPERTY TD_PAGES ${pages}/${name})
    endfunction()
    td_page(tapedeck.1 ${CMAKE_INSTALL_MANDIR}/man1 --man)
    td_page(tapedeck ${CMAKE_INSTALL_DATADIR}/bash-completion/completions --completion bash)
    td_page(_tapedeck ${CMAKE_INSTALL_DATADIR}/zsh/site-functions --completion zsh)
    td_page(tapedeck.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d --completion fish)
    get_property(written GLOBAL PROPERTY TD_PAGES)
    add_custom_target(tapedeck_pages ALL DEPENDS ${written})
endif()

# What the help and the README speak of.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tapedeck/docs COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.webp")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tapedeck COMPONENT program
        PATTERN "CMakeLists.txt" EXCLUDE PATTERN ".gitignore" EXCLUDE
        REGEX "/(runs|__pycache__|pictures|mnist/data)$" EXCLUDE REGEX "\\.(npy|npz|csv)$" EXCLUDE) # what running them leaves
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tapedeck COMPONENT program)

foreach(package IN ITEMS library=libtapedeck0 development=libtapedeck-dev program=tapedeck)
    string(REGEX MATCH "^(.*)=(.*)$" package ${package})
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CMAKE_MATCH_2}
            RENAME copyright COMPONENT ${CMAKE_MATCH_1})
endforeach()

# --- cpack -G DEB: libtapedeck0, libtapedeck-dev, tapedeck; cpack -G TGZ: all in one ---
set(CPACK_PACKAGE_NAME tapedeck)
set(CPACK_PACKAGE_VENDOR "tapedeck")
set(CPACK_PACKAGE_CONTACT "tapedeck maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "show what happens inside a neural network while it trains")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtapedeck0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtapedeck-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libtapedeck0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libsqlite3-dev, libpng-dev, libturbojpeg0-dev, zlib1g-dev, libyaml-dev, libjansson-dev")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tapedeck)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libtapedeck0 (= ${PROJECT_VERSION}), libc6")
foreach(mpi IN LISTS TD_MPI_COMPONENTS)
    string(TOUPPER ${mpi} name)
    list(APPEND CPACK_COMPONENTS_ALL mpi_${mpi})
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_NAME libtapedeck-mpi-${mpi})
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_SHLIBDEPS ON)
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_DEPENDS "libtapedeck0 (= ${PROJECT_VERSION})")
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtapedeck-mpi-${mpi}
            RENAME copyright COMPONENT mpi_${mpi})
endforeach()
include(CPack)
