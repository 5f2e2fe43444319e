// Package anthropictest is a test server for the streaming Anthropic Messages API that answers with
// a model.Model. It is for tests of the adapter, and for running the whole program without a
// network.
//
// The package may import the root package and model.
//
// The one thing to know: it is independent of the adapter. It decodes requests by the public
// documentation and refuses what the provider refuses, so that tests find a malformed request.
//
//	request ─▶ checked (400) ─▶ model.Request ─▶ the model ─▶ events in small pieces ─▶ complete or cut off
package anthropictest
