package api

import (
	"net/http"
	"strconv"
	"strings"
)

// The media types of responses.
const (
	formJSON   = "application/json"
	formEvents = "text/event-stream"
	formBytes  = "application/octet-stream"
)

// anyMedia stands for any media type of a request body.
const anyMedia = "*/*"

// negotiate picks the offer that an Accept header prefers: by q value, then by how specific the
// matching range is, then by the order of the offers. It returns "" if the header accepts none of
// them, and the first offer if there is no header.
func negotiate(accept string, offers ...string) string {
	if strings.TrimSpace(accept) == "" {
		return offers[0]
	}
	best, bestQ, bestSpecificity := "", 0.0, 0
	for _, offer := range offers {
		q, specificity := qualityOf(accept, offer)
		if q > bestQ || q == bestQ && q > 0 && specificity > bestSpecificity {
			best, bestQ, bestSpecificity = offer, q, specificity
		}
	}
	return best
}

// qualityOf returns the q value of an offer, taken from the most specific media range that matches
// it.
func qualityOf(accept, offer string) (q float64, rank int) {
	family, _, _ := strings.Cut(offer, "/")
	for one := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(one, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		matches := map[string]int{offer: 3, family + "/*": 2, "*/*": 1}[name]
		if matches > rank {
			q, rank = quality(params), matches
		}
	}
	return q, rank
}

// quality returns the q value among the parameters of a media range: 1 if it is absent or not a
// number.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if q, err := strconv.ParseFloat(value, 64); err == nil && strings.EqualFold(name, "q") && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}

// notAcceptable names the available media types.
func notAcceptable(offers ...string) error {
	return &Problem{Status: http.StatusNotAcceptable, Detail: "supported media types: " + strings.Join(offers, ", ")}
}
