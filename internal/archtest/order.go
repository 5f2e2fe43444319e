package archtest

import (
	"regexp"
	"slices"
	"strings"
)

// checkReadingOrder compares the files of the root with the package comment in doc.go, which says
// in which order to read them.
func checkReadingOrder(m *module) []finding {
	var files []string
	var order *file
	for _, f := range m.files {
		switch {
		case f.folder != "." || f.test:
		case f.path == "doc.go":
			order = f
		default:
			files = append(files, f.path)
		}
	}
	if order == nil {
		return nil // package-comment wants one
	}
	var found []finding
	named := regexp.MustCompile(`\b[a-z]+\.go\b`).FindAllString(order.syntax.Doc.Text(), -1)
	for _, name := range files {
		if !slices.Contains(named, name) {
			found = append(found, finding{path: name, message: "is not in the reading order: name it in doc.go, beside its noun"})
		}
	}
	for i, name := range named {
		switch {
		case !slices.Contains(files, name):
			found = append(found, finding{path: "doc.go", message: "names " + name + ", which does not exist: remove it from the reading order"})
		case slices.Contains(named[:i], name):
			found = append(found, finding{path: "doc.go", message: "names " + name + " twice: a file has one place in the reading order"})
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return strings.Compare(a.path, b.path) })
	return found
}
