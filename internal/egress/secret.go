package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// InsertSecrets replaces the references to secrets in the URL and the header of a request, which is
// about to be sent to the host of its URL. A denial means that the host may not have one of them,
// and that the request is unchanged. Other references stay as they are.
func InsertSecrets(req *http.Request, secrets []perdure.WebSecret) error {
	if len(secrets) == 0 {
		return nil
	}
	host := strings.ToLower(req.URL.Hostname())
	var denial *perdure.EgressError
	insert := func(text string, escape func(string) string) string {
		return perdure.InsertSecrets(text, func(ref perdure.SecretRef) (string, bool) {
			at := slices.IndexFunc(secrets, func(s perdure.WebSecret) bool { return s.Ref == ref })
			if at < 0 {
				return "", false
			}
			if !secrets[at].Permits(host) {
				denial = SecretDenied(host, secrets[at])
				return "", false
			}
			return escape(secrets[at].Value), true
		})
	}
	to := *req.URL
	to.RawQuery = insert(to.RawQuery, url.QueryEscape)
	path := insert(to.EscapedPath(), url.PathEscape)
	header := req.Header.Clone()
	for name, values := range header {
		for i, value := range values {
			if values[i] = insert(value, verbatim); strings.ContainsAny(values[i], "\r\n\x00") {
				return &perdure.EgressError{Code: perdure.EgressInvalid, Host: host,
					Text: fmt.Sprintf("a secret in the header field %s has a line break or a zero byte, which no header can contain", name)}
			}
		}
	}
	if denial != nil {
		return denial
	}
	if path != to.EscapedPath() {
		plain, err := url.PathUnescape(path)
		if err != nil {
			return &perdure.EgressError{Code: perdure.EgressInvalid, Host: host, Text: "the path of the URL has an invalid escape"}
		}
		to.Path, to.RawPath = plain, path
	}
	req.URL, req.Header = &to, header
	return nil
}

// verbatim returns a text as it is.
func verbatim(text string) string { return text }

// SecretDenied returns the denial of a request that would send a secret to a host that is none of
// its hosts.
func SecretDenied(host string, s perdure.WebSecret) *perdure.EgressError {
	text := fmt.Sprintf("%s may be sent to no host: if %s should have it, a person can store it again with that host", s, host)
	if len(s.Hosts) > 0 {
		text = fmt.Sprintf("%s may be sent to %s only, not to %s", s, strings.Join(s.Hosts, ", "), host)
	}
	return &perdure.EgressError{Code: perdure.EgressDenied, Host: host, Rule: perdure.RuleSecret, Layer: perdure.LayerSession, Text: text}
}

// dropSecrets removes the header fields that refer to a secret.
func dropSecrets(header http.Header, secrets []perdure.WebSecret) {
	for name, values := range header {
		for _, value := range values {
			refers := false
			perdure.InsertSecrets(value, func(ref perdure.SecretRef) (string, bool) {
				refers = refers || slices.ContainsFunc(secrets, func(s perdure.WebSecret) bool { return s.Ref == ref })
				return "", false
			})
			if refers {
				delete(header, name)
			}
		}
	}
}
