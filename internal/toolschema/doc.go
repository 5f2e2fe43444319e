// Package toolschema reads the JSON Schemas of tools that others wrote.
//
// It imports strictjson only. It has two functions for two readers of a schema. [Checkable] makes
// the schema against which arguments are checked here: what cannot be checked is left out, so that
// the rest still is. [Portable] makes the schema that a model reads: it describes the same
// arguments in the forms that every provider accepts.
//
// The one thing to know: neither of them refuses a schema. A keyword that makes no sense costs that
// keyword, and its place is reported.
package toolschema
