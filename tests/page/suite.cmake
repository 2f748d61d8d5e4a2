# The page in a real browser against the real server. tools/setup.sh test installs Chromium and makes the environment
# with Playwright; without them these tests are left out, with a line that says so.
set(hearth_page_python ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
find_program(HEARTH_CHROMIUM NAMES chromium chromium-browser google-chrome)
if(TARGET hearth AND TARGET hearth_server)
  execute_process(COMMAND ${hearth_page_python} -c "import playwright" RESULT_VARIABLE playwright_missing OUTPUT_QUIET ERROR_QUIET)
  if(HEARTH_CHROMIUM AND playwright_missing EQUAL 0)
    foreach(suite chat text trouble looks)
      add_test(NAME page_${suite} COMMAND ${hearth_page_python} ${CMAKE_CURRENT_LIST_DIR}/test_${suite}.py -v)
      set_tests_properties(page_${suite} PROPERTIES LABELS page TIMEOUT 600
        ENVIRONMENT "HEARTH_BINARY=$<TARGET_FILE:hearth>;HEARTH_SOURCE=${CMAKE_SOURCE_DIR};HEARTH_CHROMIUM=${HEARTH_CHROMIUM};PYTHONDONTWRITEBYTECODE=1")
    endforeach()
  else()
    message(STATUS "the page's tests are left out: Chromium or Playwright is missing (tools/setup.sh test installs both)")
  endif()
endif()
