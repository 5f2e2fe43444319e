// Package modelwire holds what the adapters of all model protocols need to know of real servers:
// the words with which answers end, the forms of errors, pictures that a provider refuses, and how
// long the first content may take. What one protocol says is also said by gateways behind another.
//
// It may import the root and model.
//
// The one thing to know: everything here reads leniently. A server that uses another word or form
// costs the meaning of that word, never the answer.
package modelwire
