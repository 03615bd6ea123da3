# Installing is defined with the package files.
