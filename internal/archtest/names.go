package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"unicode"
)

// emptyWords are the words that say nothing of a thing. They count in the plural too.
const emptyWords = "helper util common misc impl"

// checkNames looks for empty words in the names of folders, files, types, functions and methods.
func checkNames(m *module) []finding {
	var found []finding
	check := func(what, name string, at finding) {
		if word := emptyWord(path.Base(name)); word != "" {
			at.message = fmt.Sprintf("%s %s: %q says nothing; call it by a plain noun for what it is, or a plain verb for what it does",
				what, name, word)
			found = append(found, at)
		}
	}
	folders := make(map[string]bool)
	for _, f := range m.files {
		if !folders[f.folder] {
			folders[f.folder] = true
			check("folder", f.folder, finding{path: f.folder})
		}
		check("file", f.path, finding{path: f.path})
		for _, fn := range functions(f) {
			check("function", fn.Name.Name, finding{path: f.path, line: f.line(fn.Pos()), symbol: f.symbol(qualified(fn))})
		}
		forEachType(f, func(spec *ast.TypeSpec) {
			check("type", spec.Name.Name, finding{path: f.path, line: f.line(spec.Pos()), symbol: f.symbol(spec.Name.Name)})
			for _, method := range methodsOf(spec) {
				symbol := f.symbol(spec.Name.Name + "." + method.name.Name)
				check("method", method.name.Name, finding{path: f.path, line: f.line(method.name.Pos()), symbol: symbol})
			}
		})
	}
	return found
}

// emptyWord returns the first empty word of a name, or nothing.
func emptyWord(name string) string {
	empty := strings.Fields(emptyWords)
	for _, word := range splitWords(name) {
		word = strings.ToLower(word)
		if slices.Contains(empty, word) || slices.Contains(empty, strings.TrimSuffix(word, "s")) {
			return word
		}
	}
	return ""
}

// splitWords splits a name where a capital or another sign begins a word: HTTPHandler is HTTP,
// Handler.
func splitWords(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			words = append(words, string(runes[start:i]))
			start = i + 1
		case i > start && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			words = append(words, string(runes[start:i]))
			start = i
		}
	}
	return append(words, string(runes[start:]))
}
