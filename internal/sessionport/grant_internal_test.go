package sessionport

import (
	"strings"
	"testing"
)

// FuzzReadGrant: a text is read as a grant, as the token of a user, or not at all, and no error
// shows it.
func FuzzReadGrant(f *testing.F) {
	for _, text := range []string{"", "token", "grant", grantPrefix, grantPrefix + `{"access_token":"a","refresh_token":"r"}`,
		grantPrefix + `{"access_token":""}`, grantPrefix + `{"access_token":"secret-of-the-test"`, `{"access_token":"a"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := readGrant(text)
		sealed, isGrant := strings.CutPrefix(text, grantPrefix)
		switch {
		case err != nil && (!isGrant || len(sealed) > 8 && strings.Contains(err.Error(), sealed)):
			t.Fatalf("%q: %v", text, err)
		case err == nil && isGrant && g.Access == "":
			t.Fatalf("%q has no token", text)
		case !isGrant && g != (Grant{Access: text}):
			t.Fatalf("%q became another token", text)
		}
	})
}
