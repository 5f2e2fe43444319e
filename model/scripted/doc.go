// Package scripted is a model that answers from a script, for tests, demos and the tests of users
// of Perdure. It needs neither a key nor a network.
//
// The package may import the root package, model and packages without dependencies of their own.
//
// The one thing to know: the model has no memory. Its answer depends only on the request, so the
// same transcript always gets the same answer, even after a restart. It is chosen like this:
//
//	request ─▶ the first rule, from the top, whose conditions hold
//	        ─▶ else the step whose number is the count of agent messages so far
//	        ─▶ else *model.Error of code Processing
//
// docs/reference/scripted-model.md describes the file format. [Load] and [Parse] read a script, and
// [MustNotExist] takes one as Go values.
package scripted
