// Package anthropictest is a server that speaks the Anthropic Messages API, streaming, and answers with a model of ours:
// for the tests of the adapter, and for runs of the whole program without a network.
//
// It may import the root and model. The one thing to know: it knows nothing of the adapter. It reads the wire as the
// public documentation has it and refuses what the provider refuses, so that a malformed request is found here.
//
//	request ─▶ checked (400) ─▶ model.Request ─▶ the model ─▶ events in small pieces ─▶ cut or whole
package anthropictest
