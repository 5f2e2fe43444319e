package remote_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
)

// The engine of a server is used like one in this process. The server need not run yet: calls
// wait for it.
func ExampleNew() {
	eng, err := remote.New(remote.Config{URL: "unix:///nowhere/perdure.sock", Retry: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close()

	_, err = eng.Sessions().List(context.Background(), 10)
	if errors.Is(err, perdure.Unavailable) {
		fmt.Println("no server there")
	}
	// Output: no server there
}
