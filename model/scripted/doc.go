// Package scripted is a model that answers from a script: for tests, demos, and the tests of whoever uses Perdure.
// It needs no key and no network.
//
// It may import the root, model and the leaves. The one thing to know: it remembers nothing. What it answers
// depends on the request alone, so that the same transcript has the same answer, also after a restart.
//
//	request ─▶ rules, from the top: the first whose conditions hold
//	        ─▶ else the step whose number is the count of agent messages so far
//	        ─▶ else *model.Error of code Processing
//
// docs/reference/scripted-model.md describes the file. [Load] and [Parse] read one, [New] takes Go values.
package scripted
