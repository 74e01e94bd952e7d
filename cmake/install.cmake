# cmake --install: the library, its headers, the program, pkg-config's file, the man page and the
# shell completion.
include(GNUInstallDirs)

install(TARGETS tapedeck LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
get_property(plugins GLOBAL PROPERTY TD_PLUGINS)
if(plugins)
    set_target_properties(${plugins} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${plugins} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tapedeck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

if(TARGET tapedeck_program)
    # The program finds the library beside itself, whatever the prefix.
    file(RELATIVE_PATH libraries_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(tapedeck_program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_bin}")
    install(TARGETS tapedeck_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The file says where things are relative to itself, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
configure_file(${CMAKE_SOURCE_DIR}/packaging/tapedeck.pc.in ${CMAKE_BINARY_DIR}/tapedeck.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tapedeck.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(EXISTS ${CMAKE_SOURCE_DIR}/packaging/tapedeck.1)
    install(FILES ${CMAKE_SOURCE_DIR}/packaging/tapedeck.1
            DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/packaging/tapedeck.bash)
    install(FILES ${CMAKE_SOURCE_DIR}/packaging/tapedeck.bash RENAME tapedeck
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
