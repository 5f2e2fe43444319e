package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// specFolder holds the catalogue of the behaviour: each rule is a heading `### CODE: title`.
const specFolder = "docs/spec"

var (
	ruleHeading = regexp.MustCompile(`(?m)^#+ ([A-Z]{1,3})-?([0-9]{1,3}):`)
	ruleCode    = regexp.MustCompile(`\b([A-Z]{1,3})-?(0?)([0-9]{1,3})\b`)
)

// catalogue is the set of rules that docs/spec defines, and the prefixes that they use.
type catalogue struct {
	rules    map[string]bool
	prefixes map[string]bool
}

func (m *module) catalogue() catalogue {
	c := catalogue{map[string]bool{}, map[string]bool{}}
	for _, page := range m.spec {
		for _, h := range ruleHeading.FindAllStringSubmatch(page, -1) {
			c.rules[h[1]+strings.TrimLeft(h[2], "0")] = true
			c.prefixes[h[1]] = true
		}
	}
	return c
}

// checkCodes wants each code of a rule in a comment to be a heading of docs/spec, and no code in a
// text that a user may read.
func checkCodes(m *module) []finding {
	c := m.catalogue()
	var found []finding
	for _, f := range written(m) {
		for _, group := range f.syntax.Comments {
			for _, code := range ruleCode.FindAllStringSubmatch(group.Text(), -1) {
				name := code[1] + code[3]
				if c.prefixes[code[1]] && !c.rules[name] && code[3] != "0" { // C0 is a set of control characters
					found = append(found, finding{path: f.path, line: f.line(group.Pos()), message: fmt.Sprintf(
						"%s is not a rule of %s", code[0], specFolder)})
				}
			}
		}
		if f.test || f.suite() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			for _, code := range ruleCode.FindAllStringSubmatch(text.Value, -1) {
				if c.prefixes[code[1]] && c.rules[code[1]+code[3]] {
					found = append(found, finding{path: f.path, line: f.line(text.Pos()), message: fmt.Sprintf(
						"text cites the rule %s, which its reader does not know: say what it means", code[0])})
				}
			}
			return true
		})
	}
	return found
}
