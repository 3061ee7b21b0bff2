# Runs PROGRAM; it must end with 0 and its output match EXPECTED, whole.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
message("${output}")
if(NOT code EQUAL 0)
  message(FATAL_ERROR "ended with ${code}")
endif()
if(NOT output MATCHES "^${EXPECTED}$")
  message(FATAL_ERROR "expected:\n${EXPECTED}")
endif()
