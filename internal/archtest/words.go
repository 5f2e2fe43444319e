package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// glossaryPath is where the words that must not be used stand, under the heading glossaryHeading:
// the first column of a table, several in a cell separated by commas.
const (
	glossaryPath    = "docs/glossary.md"
	glossaryHeading = "## Words not to use"
)

// word is one entry of the glossary's list.
type word struct {
	text    string
	instead string
	match   *regexp.Regexp
}

// forbiddenWords reads the list of the glossary.
func forbiddenWords(glossary string) []word {
	_, list, _ := strings.Cut(glossary, glossaryHeading)
	var words []word
	for line := range strings.Lines(list) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "not" {
			continue
		}
		for text := range strings.SplitSeq(cells[0], ",") {
			text = strings.TrimSpace(text)
			pattern := `(?i)\b` + strings.ReplaceAll(regexp.QuoteMeta(text), " ", `\s+`) + `\b`
			words = append(words, word{text, strings.TrimSpace(cells[1]), regexp.MustCompile(pattern)})
		}
	}
	return words
}

// checkWords looks for the glossary's forbidden words in declared names, comments and string
// literals. Tests and generated files are left out.
func checkWords(m *module) []finding {
	words := forbiddenWords(m.glossary)
	var found []finding
	look := func(f *file, pos token.Pos, what, text string) {
		for _, w := range words {
			if w.match.MatchString(text) {
				found = append(found, finding{path: f.path, line: f.line(pos), message: fmt.Sprintf(
					"%s: %q is not a word of the glossary; say %s", what, w.text, w.instead)})
			}
		}
	}
	for _, f := range written(m) {
		if f.test || f.folder == "internal/archtest" {
			continue
		}
		for _, group := range f.syntax.Comments {
			look(f, group.Pos(), "comment", group.Text())
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					look(f, n.Pos(), "text", n.Value)
				}
			}
			return true
		})
		for _, name := range declaredNames(f) {
			look(f, name.Pos(), "name "+name.Name, strings.Join(splitWords(name.Name), " "))
		}
	}
	return found
}

// declaredNames returns the names of types, functions, methods and struct fields of a file.
func declaredNames(f *file) []*ast.Ident {
	var names []*ast.Ident
	for _, fn := range functions(f) {
		names = append(names, fn.Name)
	}
	forEachType(f, func(spec *ast.TypeSpec) {
		names = append(names, spec.Name)
		for _, method := range methodsOf(spec) {
			names = append(names, method.name)
		}
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				names = append(names, field.Names...)
			}
		}
	})
	return names
}

// maxCommentColumns is the width of a comment line; a tab counts as four columns.
const maxCommentColumns = 100

// checkCommentWidth looks for comment lines that are too wide. A comment behind code counts from
// the start of its own text. Directives and preformatted lines do not count.
func checkCommentWidth(m *module) []finding {
	var found []finding
	for _, f := range written(m) {
		for _, group := range f.syntax.Comments {
			if strings.Contains(group.Text(), "Output:") {
				continue // the output of an example is as wide as it is
			}
			for _, c := range group.List {
				at := f.positions.Position(c.Pos())
				indent := 4 * (at.Column - 1) // only tabs stand before a comment that has its line to itself
				if !f.ownLine(c) {
					indent = 0
				}
				for i, line := range strings.Split(c.Text, "\n") {
					columns := indent + len([]rune(line))
					if strings.HasPrefix(line, "//go:") || strings.HasPrefix(line, "//\t") || columns <= maxCommentColumns {
						continue
					}
					found = append(found, finding{path: f.path, line: at.Line + i, message: fmt.Sprintf(
						"comment has %d columns, the limit is %d: wrap it", columns, maxCommentColumns)})
				}
			}
		}
	}
	return found
}
