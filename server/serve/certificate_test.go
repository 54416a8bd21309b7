package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certify writes a certificate and its key, as whoever renews them does: each file
// is replaced at once.
func certify(t *testing.T, dir string, serial int64, parts ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]byte{"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
	for _, part := range parts {
		name := filepath.Join(dir, part)
		if err := os.WriteFile(name+".new", texts[part], 0o600); err != nil {
			t.Fatal(err)
		}
		// Two files of one moment have the same time where clocks are coarse.
		at := time.Unix(1_800_000_000+serial, 0)
		if err := os.Chtimes(name+".new", at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
}

// serial is which certificate a connection gets.
func serial(t *testing.T, c *certificate) int64 {
	t.Helper()
	pair, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.SerialNumber.Int64()
}

func TestACertificateThatWasRenewedIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir, 1, "cert", "key")
	var complaints []error
	c, err := newCertificate(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), func(err error) { complaints = append(complaints, err) })
	if err != nil {
		t.Fatal(err)
	}
	if got := serial(t, c); got != 1 {
		t.Errorf("at first it is number %d", got)
	}
	// Between the two files nothing fits together, and the old pair goes on.
	certify(t, dir, 2, "cert")
	for range 3 {
		if got := serial(t, c); got != 1 {
			t.Errorf("while only one file is new it is number %d", got)
		}
	}
	if len(complaints) != 1 {
		t.Errorf("files that do not fit were complained about %d times: %v", len(complaints), complaints)
	}
	certify(t, dir, 3, "cert", "key")
	if got := serial(t, c); got != 3 {
		t.Errorf("after both it is number %d", got)
	}
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if got := serial(t, c); got != 3 || len(complaints) != 2 {
		t.Errorf("with a file missing it is number %d, after the complaints %v", got, complaints)
	}
}

func TestTheSignalReadsTheCertificateAgainAndAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir, 1, "cert", "key")
	said := make(chan string)
	complained := make(chan error)
	c, err := newCertificate(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), func(err error) { complained <- err })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	reload := make(chan os.Signal)
	go func() {
		defer close(ended)
		c.reload(ctx, &Program{Reload: reload, Say: func(format string, _ ...any) { said <- format }})
	}()
	reload <- os.Interrupt
	<-said
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reload <- os.Interrupt
		<-complained
	}
	stop()
	<-ended
}
