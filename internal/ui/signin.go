package ui

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
)

// maxSignInBytes is the maximum size of the body of a sign-in.
const maxSignInBytes = 4 << 10

// signIn is the body of a sign-in. Exactly one field is set.
type signIn struct {
	Link  string `json:"link,omitempty"`  // the code of a one-time link
	Token string `json:"token,omitempty"` // an API token
}

// errSignIn says what the body of a sign-in must be.
var errSignIn = errors.New(`the body must be {"link": "CODE"} or {"token": "TOKEN"}`)

// parseSignIn reads the body of a sign-in.
func parseSignIn(body []byte) (in signIn, err error) {
	if err := perdure.DecodeJSON(body, &in); err != nil {
		return signIn{}, errSignIn
	}
	in.Link, in.Token = strings.TrimSpace(in.Link), strings.TrimSpace(in.Token)
	if (in.Link == "") == (in.Token == "") || strings.ContainsFunc(in.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return signIn{}, errSignIn
	}
	return in, nil
}

// session signs a browser in (POST) or out (DELETE).
func (h *Handler) session(w http.ResponseWriter, r *http.Request) {
	if err := h.origin.Check(r); err != nil || !fromOwnPage(r) {
		refuse(w, r, http.StatusForbidden, "a page of another origin sent this request, so it had no effect")
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.signIn(w, r)
	case http.MethodDelete:
		h.signOut(w, r)
	default:
		w.Header().Set("Allow", "POST, DELETE")
		refuse(w, r, http.StatusMethodNotAllowed, r.Method+" is not allowed for this path; allowed: POST, DELETE")
	}
}

func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	if !isEncrypted(r) && !isLocal(r) {
		refuse(w, r, http.StatusForbidden, "this page came over an unencrypted connection from another machine, where others could read your token; put a proxy with TLS before the server, see docs/how-to/behind-nginx")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignInBytes))
	var in signIn
	if err == nil {
		in, err = parseSignIn(body)
	}
	if err != nil {
		refuse(w, r, http.StatusBadRequest, errSignIn.Error())
		return
	}
	given, err := h.credential(r, in)
	var wait *access.Wait
	switch {
	case errors.As(err, &wait):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.For.Seconds()))))
		refuse(w, r, http.StatusTooManyRequests, wait.Error())
	case errors.Is(err, errLink):
		refuse(w, r, http.StatusUnauthorized, errLink.Error())
	case errors.Is(err, access.Unknown):
		refuse(w, r, http.StatusUnauthorized, access.Unknown.Error())
	case err != nil:
		refuse(w, r, http.StatusServiceUnavailable, "the server could not sign you in at the moment; try again")
	default:
		setCookie(w, r, &given)
		w.WriteHeader(http.StatusNoContent)
	}
}

// errLink is the error of a link that cannot be used.
var errLink = errors.New("this link was used before, or has expired: `perdure ui` creates another one")

// credential returns the credential for a sign-in. errLink, access.Unknown: the code or the token
// is not valid. *access.Wait: the address has sent too many invalid tokens.
func (h *Handler) credential(r *http.Request, in signIn) (credential, error) {
	if in.Link == "" {
		_, err := h.cfg.Keyring.Verify(r.Context(), in.Token, r.RemoteAddr)
		return credential{secret: in.Token}, err
	}
	restore, ok := h.cfg.Links.take(in.Link)
	if !ok {
		return credential{}, errLink
	}
	secret, err := h.cfg.Browsers.Create(r.Context(), time.Now().Add(signInTime))
	if err != nil {
		restore()
		return credential{}, err
	}
	return credential{secret: secret, linked: true}, nil
}

// signOut removes the cookie, and revokes the token if it was created for this browser.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	if given, ok := credentialOf(r); ok && given.linked {
		if err := h.revoke(r.Context(), given, r.RemoteAddr); err != nil {
			refuse(w, r, http.StatusServiceUnavailable, "the token of this browser could not be revoked at the moment; try again")
			return
		}
	}
	setCookie(w, r, nil)
	w.WriteHeader(http.StatusNoContent)
}

// revoke revokes the token of a credential. A token that is not valid any more needs no revocation,
// and the token of the data directory is never revoked.
func (h *Handler) revoke(ctx context.Context, given credential, remote string) error {
	who, err := h.cfg.Keyring.Verify(ctx, given.secret, remote)
	switch {
	case errors.Is(err, access.Unknown) || err == nil && who.ID == access.Root:
		return nil
	case err != nil:
		return err
	}
	return h.cfg.Browsers.Revoke(ctx, perdure.TokenID(who.ID))
}
