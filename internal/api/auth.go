package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
)

// The actors of writes.
const (
	actorAPI      = "api"      // whoever holds the token
	actorUser     = "user"     // on the socket
	actorOperator = "operator" // on the socket, when it says so
)

// identify finds out who asks and how much they may be told (H11).
func (a *API) identify(r *http.Request, req *request) error {
	if err := narrow(r, req); err != nil {
		return err
	}
	if a.cfg.Local {
		req.actor = orDefault(r.Header.Get("Perdure-Actor"), actorUser)
		if req.actor != actorUser && req.actor != actorOperator {
			return fmt.Errorf("%w Perdure-Actor: user or operator", perdure.Invalid)
		}
		return nil
	}
	req.actor = actorAPI
	if open(r.URL.Path) {
		return nil
	}
	for _, name := range []string{"access_token", "token", "api_key", "key"} {
		if r.URL.Query().Has(name) {
			return unauthorized("a token in the query ends in logs; send `Authorization: Bearer TOKEN`, and change this one")
		}
	}
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return unauthorized("send one header `Authorization: Bearer TOKEN`")
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(sum[:], a.token[:]) != 1 || !strings.EqualFold(scheme, "bearer") {
		return unauthorized("the token is not the one of this server")
	}
	return nil
}

// open reports a path that needs no token.
func open(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/openapi.json"
}

func unauthorized(detail string) error {
	return &Problem{Status: http.StatusUnauthorized, Detail: detail, header: http.Header{"Www-Authenticate": {"Bearer"}}}
}
