import Configuration
import Testing

@Suite("SPEC §5 the store's key") struct StoreSettingsTests {
  @Test("without a setting there is none") func absent() throws {
    #expect(try configuration("").store == Configuration.Store())
  }

  @Test("an absolute path is taken as it is") func absolute() throws {
    let store = try configuration(
      "[store]\nkey_file = \"/etc/bearerd/key\"", environment: ["CREDENTIALS_DIRECTORY": "/run/credentials/b"]
    ).store
    #expect(store.keyFile == "/etc/bearerd/key")
    #expect(!store.isKeyCredential)
  }

  @Test(
    "a file of the credentials directory is known as one, however it is spelled",
    arguments: ["$CREDENTIALS_DIRECTORY/key", "/run/credentials/b/key"])
  func credential(_ path: String) throws {
    let store = try configuration(
      "[store]\nkey_file = \"\(path)\"", environment: ["CREDENTIALS_DIRECTORY": "/run/credentials/b"]
    ).store
    #expect(store.keyFile == "/run/credentials/b/key")
    #expect(store.isKeyCredential)
  }

  @Test("a directory whose name only begins alike is another one") func beginsAlike() throws {
    let store = try configuration(
      "[store]\nkey_file = \"/run/credentials/bob/key\"",
      environment: ["CREDENTIALS_DIRECTORY": "/run/credentials/b"]
    ).store
    #expect(!store.isKeyCredential)
  }

  @Test(
    "what is no path of a file is one error",
    arguments: [
      Refusal(
        "[store]\nkey_file = \"key\"", "`store.key_file`: found \"key\", expected an absolute path"),
      Refusal(
        "[store]\nkey_file = \"$CREDENTIALS_DIRECTORY/key\"",
        "`store.key_file`: found \"$CREDENTIALS_DIRECTORY/key\", "
          + "expected a path; `CREDENTIALS_DIRECTORY` is not set"),
    ])
  func refused(_ refusal: Refusal) {
    #expect(errors(refusal.text) == [refusal.error])
  }

  @Test("it is shown, and one that cannot be read is an error apart from parsing") func checked() throws {
    let read = try configuration("[store]\nkey_file = \"/nonexistent/key\"")
    #expect(read.effective.contains("[store]\nkey_file = \"/nonexistent/key\"\n"))
    #expect(
      read.checkFiles().map(\.description) == ["`store.key_file`: /nonexistent/key: No such file or directory"])
  }
}
