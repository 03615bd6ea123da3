# A wheel takes Z3 from the package z3-solver of the Python that builds it, which it then asks for by its version.

find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('z3').submodule_search_locations[0])"
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE Z3_ROOT RESULT_VARIABLE no_z3)
if(no_z3)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no z3-solver, which pyproject.toml names.")
endif()
