# Black-box tests of `hearth serve`, plain HTTP and the official clients (from build/venv, made by tools/setup.sh test).
if(TARGET hearth AND TARGET hearth_server)
  set(hearth_client_python ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
  foreach(suite http streams trees limits clients docs hostile crowds tree_command)
    set(python ${Python3_EXECUTABLE})
    if(suite STREQUAL "clients")
      if(NOT EXISTS ${hearth_client_python})
        message(STATUS "server_clients is left out: build/venv is missing (tools/setup.sh test makes it)")
        continue()
      endif()
      set(python ${hearth_client_python})
    endif()
    add_test(NAME server_${suite} COMMAND ${python} ${CMAKE_CURRENT_LIST_DIR}/test_${suite}.py -v)
    set_tests_properties(server_${suite} PROPERTIES LABELS server TIMEOUT 300
      ENVIRONMENT "HEARTH_BINARY=$<TARGET_FILE:hearth>;HEARTH_SOURCE=${CMAKE_SOURCE_DIR};HEARTH_SANITIZE=${HEARTH_SANITIZE};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
  # A glance of what tests/server/soak.py is for.
  add_test(NAME server_soak COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/soak.py
    --binary $<TARGET_FILE:hearth> --minutes 0.33)
  set_tests_properties(server_soak PROPERTIES LABELS server TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
  # They look at the time /health takes: not beside another suite.
  set_tests_properties(server_hostile server_crowds server_soak PROPERTIES PROCESSORS 2)
endif()
