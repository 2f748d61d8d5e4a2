# Chat templates against Python's jinja2, byte for byte; needs the folder of real templates and the jinja2 package.
add_executable(render_template ${CMAKE_CURRENT_LIST_DIR}/render_template.cpp)
target_link_libraries(render_template PRIVATE hearth_text)
if(HEARTH_SHARED_DATA)
  add_test(NAME compare_templates COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/compare_templates.py
    $<TARGET_FILE:render_template> ${HEARTH_SHARED_DATA}/templates)
  set_tests_properties(compare_templates PROPERTIES LABELS templates TIMEOUT 300
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
