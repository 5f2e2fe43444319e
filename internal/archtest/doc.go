// Package archtest keeps the house rules, as tests: the import table, the rooms of the libraries, the sizes, the names,
// the comments, and the calls that are not made.
//
// It parses every Go file of the module and runs each rule of [rules] over the result; a rule answers with findings that
// say what to do. To change a rule, edit its table: rooms.go (who imports whom of ours), libraries.go (who imports which
// library), size.go (limits), names.go (words), exceptions.go (where a rule makes the code worse, and why).
//
// It imports the standard library only, and nothing imports it. It knows no types: a rule sees what stands in the text.
package archtest
