// Package archtest checks the rules of the code base, as tests: the import table, the allowed
// libraries, sizes, names, comments, and forbidden calls.
//
// It parses every Go file of the module and runs each rule of [rules] over the result. A rule
// returns findings that say what to do. To change a rule, edit its table: importtable.go (imports
// between our packages), libraries.go (imports of libraries), size.go (limits), names.go (words),
// exceptions.go (places where a rule makes the code worse, with reasons).
//
// It imports the standard library only, and nothing imports it. The one thing to know: it has no
// type information; a rule sees the syntax only.
package archtest
