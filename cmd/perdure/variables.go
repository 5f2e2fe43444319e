package main

import (
	"fmt"
	"regexp"
)

// insertVariables inserts the variables of the environment into a field of a file, in which they
// stand as ${NAME}. It returns the values that were inserted, too. Any other $ stays as it is. A
// variable that is not set, or is empty, is an error: nobody means a field without its secret.
func insertVariables(field, text string, getenv func(string) string) (filled string, values []string, err error) {
	variable := regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	filled = variable.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		value := getenv(name)
		if value == "" && err == nil {
			err = fmt.Errorf("%s needs the variable %s, which is not set", field, name)
		}
		values = append(values, value)
		return value
	})
	if err != nil {
		return "", nil, err
	}
	return filled, values, nil
}
