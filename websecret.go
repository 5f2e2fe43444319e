package perdure

import (
	"slices"
	"strings"
)

// RuleSecret denies a request that names a secret which the host may not have, for [EgressError].
const RuleSecret = "secret"

// SecretRef names a value that must not be written down: secret:NAME is a secret of the session,
// connection:PROVIDER the token of its user at a provider.
type SecretRef string

// The beginnings of references.
const (
	secretRef     = "secret:"
	connectionRef = "connection:"
)

// Secret returns the name of the secret of the session; empty: it is another reference.
func (r SecretRef) Secret() string { return r.after(secretRef) }

// Provider returns the provider of the connection; empty: it is another reference.
func (r SecretRef) Provider() string { return r.after(connectionRef) }

func (r SecretRef) after(kind string) string {
	name, ok := strings.CutPrefix(string(r), kind)
	if !ok {
		return ""
	}
	return name
}

// WebSecret is a value that the egress guard inserts into a request in the place of its reference,
// for its hosts only. Neither the caller nor a record sees the value in the request.
type WebSecret struct {
	Ref   SecretRef
	Value string   `json:"-"`
	Hosts []string // exact host names in lower case, on any port; empty: it is sent nowhere
}

// String hides the value.
func (s WebSecret) String() string { return string(s.Ref) }

// GoString hides the value.
func (s WebSecret) GoString() string { return s.String() }

// Permits reports whether the secret may be sent to a host, which is in the normal form of a URL.
func (s WebSecret) Permits(host string) bool { return slices.Contains(s.Hosts, host) }

// InsertSecrets replaces the references in a text. value returns the replacement of one; false
// leaves it as it is. A name in a reference has letters, digits and . - _, and does not end with .
// or -. There is no reference in the middle of a word.
func InsertSecrets(text string, value func(SecretRef) (string, bool)) string {
	var out strings.Builder
	written := 0 // bytes of text that out has
	for from := 0; ; {
		start, after := nextReference(text, from)
		if after == 0 {
			break
		}
		from = after
		name := leadingName(text[from:])
		if name == "" || start > 0 && isNameByte(text[start-1]) {
			continue
		}
		from += len(name)
		if found, ok := value(SecretRef(text[start:from])); ok {
			out.WriteString(text[written:start])
			out.WriteString(found)
			written = from
		}
	}
	if written == 0 {
		return text
	}
	return out.String() + text[written:]
}

// nextReference returns where the next reference begins, and where its name does; 0: there is none.
func nextReference(text string, from int) (start, name int) {
	for _, kind := range []string{secretRef, connectionRef} {
		at := strings.Index(text[from:], kind)
		if at >= 0 && (name == 0 || from+at < start) {
			start, name = from+at, from+at+len(kind)
		}
	}
	return start, name
}

// SecretRefs returns the references in the URL and the header of a request, sorted, each once.
func (r WebRequest) SecretRefs() []SecretRef {
	var refs []SecretRef
	note := func(ref SecretRef) (string, bool) {
		refs = append(refs, ref)
		return "", false
	}
	InsertSecrets(r.URL, note)
	for _, values := range r.Header {
		for _, value := range values {
			InsertSecrets(value, note)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// leadingName returns the name that a text begins with; empty: it begins with none.
func leadingName(text string) string {
	end := 0
	for end < len(text) && isNameByte(text[end]) {
		end++
	}
	return strings.TrimRight(text[:end], ".-")
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
