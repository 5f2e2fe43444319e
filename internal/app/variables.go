package app

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"

	"github.com/perdure/perdure"
)

// checkVariables reports the first variable of the entry of a server that is not set. With an empty
// text in its place, the server would refuse the requests for a reason that names no variable.
// Names that are no variables of the environment, as in $1, are not checked.
func (m mcpServer) checkVariables() (err error) {
	isName := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	check := func(field, text string) {
		os.Expand(text, func(name string) string {
			if _, set := os.LookupEnv(name); !set && err == nil && isName.MatchString(name) {
				err = fmt.Errorf("%w: %s needs the variable %s, which is not set", perdure.Invalid, field, name)
			}
			return ""
		})
	}
	for i, arg := range m.Args {
		check(fmt.Sprintf("args[%d]", i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		check("env."+name, m.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		check("headers."+name, m.Headers[name])
	}
	return err
}

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
