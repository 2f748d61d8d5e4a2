# The catalogue is a text file, compiled in as one string.
file(READ ${CMAKE_SOURCE_DIR}/src/cli/models.toml hearth_catalogue)
configure_file(${CMAKE_SOURCE_DIR}/src/cli/catalogue_text.cpp.in ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/models.toml)
target_sources(hearth_cli PRIVATE ${CMAKE_BINARY_DIR}/generated/catalogue_text.cpp)
target_compile_definitions(hearth_cli PRIVATE HEARTH_VERSION="${PROJECT_VERSION}")

# `serve` is in the program only where the server's libraries were found; elsewhere it says how to get it.
if(TARGET hearth_server)
  set(hearth_left_out serve_missing.cpp)
else()
  set(hearth_left_out serve_models.cpp)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cli/${hearth_left_out} PROPERTIES HEADER_FILE_ONLY ON)
