// Package api is the HTTP API of Perdure over an engine: JSON, Server-Sent Events and problem+json.
//
// It may import the root and the port engine. The one thing to know: the body of a request is read whole, once and
// strictly, before anything else happens, and an answer that acknowledges something is written after the commit.
package api
