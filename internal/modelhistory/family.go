package modelhistory

import (
	"net/url"
	"strings"
)

// Family names the providers that take each other's state: the same protocol, the same server, and
// a model of the same kind, such as gemini for google/gemini-3-pro. One server may offer models of
// several vendors, and one vendor refuses the state of another.
func Family(protocol, baseURL, modelName string) string {
	server := baseURL
	if base, err := url.Parse(baseURL); err == nil && base.Host != "" {
		server = base.Host + strings.TrimRight(base.Path, "/")
	}
	return strings.TrimSpace(protocol + " " + strings.ToLower(server) + " " + kind(modelName))
}

// kind returns the letters at the start of a model's name, without the vendor in front of it.
func kind(modelName string) string {
	own := strings.ToLower(modelName[strings.LastIndexByte(modelName, '/')+1:])
	end := strings.IndexFunc(own, func(r rune) bool { return r < 'a' || r > 'z' })
	if end < 0 {
		return own
	}
	if end == 0 {
		return own // such as 7b-instruct
	}
	return own[:end]
}
