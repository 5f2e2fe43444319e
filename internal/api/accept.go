package api

import (
	"net/http"
	"strconv"
	"strings"
)

// The forms of an answer.
const (
	formJSON   = "application/json"
	formEvents = "text/event-stream"
	formBytes  = "application/octet-stream"
)

// negotiate picks the offer that an Accept header likes best: by its q, then by how exactly it names it, then by
// the order of the offers. Empty: it takes none of them. No header takes the first.
func negotiate(accept string, offers ...string) string {
	if strings.TrimSpace(accept) == "" {
		return offers[0]
	}
	best, bestQ, bestRank := "", 0.0, 0
	for _, offer := range offers {
		q, rank := liking(accept, offer)
		if q > bestQ || q == bestQ && q > 0 && rank > bestRank {
			best, bestQ, bestRank = offer, q, rank
		}
	}
	return best
}

// liking is the q that a header gives an offer, from its most exact range that matches.
func liking(accept, offer string) (q float64, rank int) {
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

// quality is the q among the parameters of a media range; 1 when it is not there or is no number.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if q, err := strconv.ParseFloat(value, 64); err == nil && strings.EqualFold(name, "q") && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}

// notAcceptable names the forms that there are.
func notAcceptable(offers ...string) error {
	return &Problem{Status: http.StatusNotAcceptable, Detail: "this answers with " + strings.Join(offers, ", ")}
}
