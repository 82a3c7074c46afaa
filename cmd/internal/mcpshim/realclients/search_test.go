package realclients_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// forms are the ways in which the secret could stand somewhere.
func forms() map[string]string {
	f := map[string]string{
		"raw":           secret,
		"hex":           hex.EncodeToString([]byte(secret)),
		"query":         url.QueryEscape(secret),
		"path":          url.PathEscape(secret),
		"JSON, slashes": strings.ReplaceAll(secret, "/", `\/`),
		"JSON, HTML":    strings.ReplaceAll(secret, "+", `\u002b`),
	}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for shift := range 3 { // in the middle of something else, the characters that its neighbours don't touch
			text := enc.EncodeToString(append(make([]byte, shift), secret...))
			f[fmt.Sprint(name, shift)] = text[(shift*8+5)/6 : (shift+len(secret))*8/6]
		}
	}
	return f
}

// found names the forms that are in b, whatever their case.
func found(b []byte) (names []string) {
	low := bytes.ToLower(b)
	for name, text := range forms() {
		if bytes.Contains(low, []byte(strings.ToLower(text))) {
			names = append(names, name)
		}
	}
	return names
}

// TestSearchFinds: a search that can't find proves nothing.
func TestSearchFinds(t *testing.T) {
	for name, text := range forms() {
		if len(found([]byte("x"+text+"y"))) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	if names := found([]byte(secret[1:])); len(names) > 0 {
		t.Errorf("found in a part: %q", names)
	}
}
