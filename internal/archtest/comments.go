package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainMethods are methods of well-known interfaces, which need no comment.
const plainMethods = "String Error MarshalJSON UnmarshalJSON MarshalText UnmarshalText Is Unwrap"

// checkPackageComment requires exactly one package comment per package. Test files count only in
// packages without other files.
func checkPackageComment(m *module) []finding {
	var found []finding
	for _, files := range packages(m) {
		first := ""
		for _, f := range files {
			switch {
			case f.syntax.Doc.Text() == "":
			case first == "":
				first = f.path
			default:
				found = append(found, finding{path: f.path, line: f.line(f.syntax.Package), message: fmt.Sprintf(
					"has a second package comment, the first is in %s: merge them", first)})
			}
		}
		if first == "" {
			found = append(found, finding{path: files[0].folder, message: fmt.Sprintf(
				"package %s has no package comment: describe in doc.go what it is for, what it may import, and the one thing to know",
				files[0].syntax.Name.Name)})
		}
	}
	return found
}

// packages groups the files by package. Test files are left out where there are other files.
func packages(m *module) [][]*file {
	var keys []string
	source, test := make(map[string][]*file), make(map[string][]*file)
	for _, f := range m.files {
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		key := f.folder + " " + name
		if source[key] == nil && test[key] == nil {
			keys = append(keys, key)
		}
		if f.test {
			test[key] = append(test[key], f)
		} else {
			source[key] = append(source[key], f)
		}
	}
	var groups [][]*file
	for _, key := range keys {
		if source[key] != nil {
			groups = append(groups, source[key])
		} else {
			groups = append(groups, test[key])
		}
	}
	return groups
}

// checkDocs requires a doc comment that begins with the name for every exported name outside tests.
// In a group, a comment at the end of the line is enough; for constants and variables the comment
// of the group is enough, too.
func checkDocs(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.test {
			continue
		}
		check := func(name string, pos token.Pos, docs ...*ast.CommentGroup) {
			short := name[strings.LastIndex(name, ".")+1:]
			if !ast.IsExported(short) ||
				slices.ContainsFunc(docs, func(doc *ast.CommentGroup) bool { return beginsWith(doc, short) }) {
				return
			}
			found = append(found, finding{path: f.path, line: f.line(pos), symbol: f.symbol(name), message: fmt.Sprintf(
				"%s has no doc comment that begins with its name: write what a reader of go doc needs to know", name)})
		}
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				checkFunctionDoc(d, check)
			case *ast.GenDecl:
				checkGroupDocs(d, check)
			}
		}
	}
	return found
}

// docCheck checks that one of docs is sufficient for a name.
type docCheck func(name string, pos token.Pos, docs ...*ast.CommentGroup)

func checkFunctionDoc(fn *ast.FuncDecl, check docCheck) {
	of := receiver(fn)
	if of != "" && (!ast.IsExported(of) || plain(fn.Name.Name)) {
		return
	}
	check(qualified(fn), fn.Pos(), fn.Doc)
}

func checkGroupDocs(decl *ast.GenDecl, check docCheck) {
	for _, spec := range decl.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			checkTypeDoc(decl, s, check)
		case *ast.ValueSpec:
			if decl.Lparen.IsValid() && (decl.Doc != nil || s.Comment != nil) {
				continue
			}
			for _, name := range s.Names {
				check(name.Name, name.Pos(), decl.Doc, s.Doc)
			}
		}
	}
}

func checkTypeDoc(decl *ast.GenDecl, spec *ast.TypeSpec, check docCheck) {
	if !decl.Lparen.IsValid() || spec.Comment == nil {
		check(spec.Name.Name, spec.Pos(), decl.Doc, spec.Doc)
	}
	if !spec.Name.IsExported() {
		return
	}
	for _, m := range methodsOf(spec) {
		if !plain(m.name.Name) {
			check(spec.Name.Name+"."+m.name.Name, m.name.Pos(), m.doc)
		}
	}
}

func plain(method string) bool { return slices.Contains(strings.Fields(plainMethods), method) }

// beginsWith reports whether the first word of a comment is name.
func beginsWith(doc *ast.CommentGroup, name string) bool {
	rest, ok := strings.CutPrefix(doc.Text(), name)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && next != '_' && !unicode.IsLetter(next) && !unicode.IsDigit(next)
}
