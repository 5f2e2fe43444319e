// Package contact tests Perdure with programs of other authors: their clients read our recorded
// streams, their mock server answers as a provider, and their MCP servers run behind mcp.json and
// behind the proxy.
//
// It contains only tests, with the build tag contact, and may import nothing of ours outside them.
//
// The one thing to know: make contact installs the programs, at the versions of
// testdata/npm/package-lock.json, and prints what each of them needed.
package contact
