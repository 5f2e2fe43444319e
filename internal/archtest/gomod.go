package archtest

import "strings"

// requirement is one direct requirement of go.mod.
type requirement struct {
	module  string
	version string
	line    int
}

// parseGoMod reads the module line and the direct requirements. It supports only the format that
// the go command writes.
func parseGoMod(text string) *module {
	m := &module{}
	block := ""
	for i, line := range strings.Split(text, "\n") {
		statement, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(statement)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch {
		case words[0] == "module" && len(words) == 2:
			m.path = words[1]
		case words[0] == "require" && len(words) == 3 && !strings.Contains(comment, "indirect"):
			m.requires = append(m.requires, requirement{module: words[1], version: words[2], line: i + 1})
		}
	}
	return m
}
