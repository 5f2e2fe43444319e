// Package api is the HTTP API of Perdure over an engine: JSON, Server-Sent Events and problem+json.
//
// It may import the root and the port engine. The one thing to know: the whole body of a request is
// read strictly before anything else happens, and a response that acknowledges a change is written
// after the commit.
//
// ServeHTTP (request.go) is the way of every request: limits on its size, routing, rate limit,
// authentication, policy, admission queue, idempotency key, conditions such as If-Match, and then
// the operation. Each operation is registered with huma, in the file of its noun, and describes
// itself in the OpenAPI document. What must be known of a request before it runs is a field of its
// operation: policy, class under overload, limit and media type of the body.
package api
