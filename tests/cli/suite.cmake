# Black-box tests of the built binary: usage, model files, pull, run, bench, plan and doctor, the terminal.
if(TARGET hearth)
  foreach(suite usage models pull run bench plan terminal)
    add_test(NAME cli_${suite} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_${suite}.py -v)
    set_tests_properties(cli_${suite} PROPERTIES LABELS cli TIMEOUT 300
      ENVIRONMENT "HEARTH_BINARY=$<TARGET_FILE:hearth>;HEARTH_SOURCE=${CMAKE_SOURCE_DIR};HEARTH_SANITIZE=${HEARTH_SANITIZE};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()
