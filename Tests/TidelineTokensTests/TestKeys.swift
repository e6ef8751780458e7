// TestKeys: keys that were created for these tests only, as OpenSSL writes them.

enum TestKeys {
    /// 32 bytes.
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)

    /// RSA, 2048 bits.
    static let rsaPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEAAoIBAQCxp3bQLj+JHfaI
        kuUF8YxDcGwIFJrGBJvDP+O1ockiVxzcEdfFUZR2jX96/I7pvqbtEvNQeRHDL1QA
        9KVRjbpYBDsHQUAqo33acycVyOOyrDfHtZlBEHMsWMifz5C/XRHVEQfcTo+eWI8d
        lmtQX6DI+m8HAG0R+owsxaS+YB8s/mOw1jtIYH4bjNL9B2lwfrMD5XXrOe5D0TuH
        TUZ4jSrBdc7DLETld+Yo7HpKJkddEpkuGAI6v2n0K2fXH1+VxckwkWlCkkyKVCNp
        HTHut1EY3T7qfEQ7CXm7Qd4oE2LZRECBSflR3YpS8niLb0RiCOWIGfKG/rflD+x+
        FKdAWd1tAgMBAAECggEAEOFn93+Rf3KmqJMGqoIpcQYHadwlWb/52fth5HIXRclP
        v3R9k2z9RaeLz7CcVscMHvZAQusCHlEKsx2L8Nwd8vuR7U5MrdCDpqRu+BGy2xkk
        orgVdBp/Sx0zkQXcy+Yoyd1YqR0Y5fOlw6q1jzlK8pXjQ1/NvVnYhG+SSBmjlLd9
        sH+IY45bmuLXb2/wQE0bw5pbmXLyp3BWb1OsskT1pQgA2U2YGODXzdhwLksFGunM
        T1C7warQ31Uq9XV8r6XjO8gcxzflw82im5AB/oKsXczaLvxdyAqB0EYoug0Zb80j
        2DhOTZng/fBthT0c22YeURGG57f6wCraP1cbFMCXIQKBgQDnnB1yR4AoFGCJrATi
        GTgb6mKc6Gz49iHvd70wFGvIuKAxlTGDftyVKGLGLZnNshNhqAbpo0Ud8Vfes5at
        /UT8s2RRvffeLRFlTVkzAjgNBICpdAl4RoD04a/BoYL2Qiwivoc2fPhHadGrJUSy
        eFLw3ANQIyLw85qKWUGqH60T4QKBgQDEXMcjF29z37W+aoNo8NYXTTjXjzqs9ISu
        kCD09gWodKivorEvAA+o0zmhlQXGAEMm1BnzxZboWEqmMBW8JSLbnEBG/w0l86Iz
        7kspdhWOvFjid7smIgzjPyIbsd66b3YbgWksA7OgwDozERBZLmAJu7TLYwfg9aXA
        mxpGsFs7DQKBgDc8plEw+EGWyodK/UcnGJifx7EARa0ClolUF0y2MhaG4b2xhUOF
        J/pyzUvSaFIEXFb4Cd4C0GMZwgkc75zDQIa8CfrswYa9XN66GcHuj4ubPUwsnm2O
        8wZ0JMSbTm6IzZnjsr+uAlCVzilxE/c0dyN2dVvRZW3tyzefneeC8nZBAoGAIwpn
        YuS4t9XRCeTaBG0N12SpYxYlI14TG0+PAgexJMmEnKsMsVVyde8TlrkQKbA8S36I
        Dw9Qia/Pym5EQqnh2Yy9j63N+9rJNDku4nw3Bpynw+oX1Is4/4hxnr2UAHMJgYkL
        apZShLoo6Jn/79otuy7q6WyHqGZNqNxEyR6JeTUCgYBd/p5n8ApYrATW7WsBk3MH
        +Uxe0CNPOI3ACp236UGCRiaZWMYxy/84dTAlqSuLDpX0iwsQSy2TNqg8jLojwtFu
        sxSy94NtjFV7ecRRHsiboZfXq/WH2j150EG9dHDBZpTj4y9aZMSa3lySMjnGJPg+
        3jeG4GLg1GMU3lHk4o49Xg==
        -----END PRIVATE KEY-----
        """

    /// The public half of `rsaPrivate`.
    static let rsaPublic = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAsad20C4/iR32iJLlBfGM
        Q3BsCBSaxgSbwz/jtaHJIlcc3BHXxVGUdo1/evyO6b6m7RLzUHkRwy9UAPSlUY26
        WAQ7B0FAKqN92nMnFcjjsqw3x7WZQRBzLFjIn8+Qv10R1REH3E6PnliPHZZrUF+g
        yPpvBwBtEfqMLMWkvmAfLP5jsNY7SGB+G4zS/QdpcH6zA+V16znuQ9E7h01GeI0q
        wXXOwyxE5XfmKOx6SiZHXRKZLhgCOr9p9Ctn1x9flcXJMJFpQpJMilQjaR0x7rdR
        GN0+6nxEOwl5u0HeKBNi2URAgUn5Ud2KUvJ4i29EYgjliBnyhv635Q/sfhSnQFnd
        bQIDAQAB
        -----END PUBLIC KEY-----
        """

    /// A self-signed certificate for `rsaPrivate`.
    static let rsaCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIC/zCCAeegAwIBAgIUYGZrx1Kx7JD+slr1HsrotX8/IAIwDQYJKoZIhvcNAQEL
        BQAwDjEMMAoGA1UEAwwDcnNhMCAXDTI2MTEyMTEwMTgyM1oYDzIxMjYxMDI4MTAx
        ODIzWjAOMQwwCgYDVQQDDANyc2EwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEK
        AoIBAQCxp3bQLj+JHfaIkuUF8YxDcGwIFJrGBJvDP+O1ockiVxzcEdfFUZR2jX96
        /I7pvqbtEvNQeRHDL1QA9KVRjbpYBDsHQUAqo33acycVyOOyrDfHtZlBEHMsWMif
        z5C/XRHVEQfcTo+eWI8dlmtQX6DI+m8HAG0R+owsxaS+YB8s/mOw1jtIYH4bjNL9
        B2lwfrMD5XXrOe5D0TuHTUZ4jSrBdc7DLETld+Yo7HpKJkddEpkuGAI6v2n0K2fX
        H1+VxckwkWlCkkyKVCNpHTHut1EY3T7qfEQ7CXm7Qd4oE2LZRECBSflR3YpS8niL
        b0RiCOWIGfKG/rflD+x+FKdAWd1tAgMBAAGjUzBRMB0GA1UdDgQWBBRjEuytHNZC
        GM4c7u19waD8RSOhrTAfBgNVHSMEGDAWgBRjEuytHNZCGM4c7u19waD8RSOhrTAP
        BgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQAKRDycPFCFo+LKOjZ4
        G155IINeBHtEC1HMqr7YpsFuhQdKFd40e1Z9pwtBE0cXiURa6wb9jQ4EWzim+yRK
        8rlecCCpv7lyQClCWsbRWVMLunugpEOf8ShXd+rrea7Tml8bL1o/+A9d3hUZrEFg
        LJO7k4X6+W+JR0J6FlTA+f9bMF7S7URrhivaZvtQQwcEqOTbKUejyq+nqM+VKyAP
        aIMuM3xS2BXcJ0PFQf+oG4WmX71JOQLZS5C4qHahlTHD4EDN+uofJIRgi9MmAjWu
        bzhDc+3M7l9W6ZK/DPLD/2IZU5TP2rfZA0Y+n1/f5/Wua7HbckKpdLsl/gNbQJLl
        k1Un
        -----END CERTIFICATE-----
        """

    /// `rsaPrivate` in the older format, PKCS #1.
    static let rsaTraditional = """
        -----BEGIN RSA PRIVATE KEY-----
        MIIEogIBAAKCAQEAsad20C4/iR32iJLlBfGMQ3BsCBSaxgSbwz/jtaHJIlcc3BHX
        xVGUdo1/evyO6b6m7RLzUHkRwy9UAPSlUY26WAQ7B0FAKqN92nMnFcjjsqw3x7WZ
        QRBzLFjIn8+Qv10R1REH3E6PnliPHZZrUF+gyPpvBwBtEfqMLMWkvmAfLP5jsNY7
        SGB+G4zS/QdpcH6zA+V16znuQ9E7h01GeI0qwXXOwyxE5XfmKOx6SiZHXRKZLhgC
        Or9p9Ctn1x9flcXJMJFpQpJMilQjaR0x7rdRGN0+6nxEOwl5u0HeKBNi2URAgUn5
        Ud2KUvJ4i29EYgjliBnyhv635Q/sfhSnQFndbQIDAQABAoIBABDhZ/d/kX9ypqiT
        BqqCKXEGB2ncJVm/+dn7YeRyF0XJT790fZNs/UWni8+wnFbHDB72QELrAh5RCrMd
        i/DcHfL7ke1OTK3Qg6akbvgRstsZJKK4FXQaf0sdM5EF3MvmKMndWKkdGOXzpcOq
        tY85SvKV40Nfzb1Z2IRvkkgZo5S3fbB/iGOOW5ri129v8EBNG8OaW5ly8qdwVm9T
        rLJE9aUIANlNmBjg183YcC5LBRrpzE9Qu8Gq0N9VKvV1fK+l4zvIHMc35cPNopuQ
        Af6CrF3M2i78XcgKgdBGKLoNGW/NI9g4Tk2Z4P3wbYU9HNtmHlERhue3+sAq2j9X
        GxTAlyECgYEA55wdckeAKBRgiawE4hk4G+pinOhs+PYh73e9MBRryLigMZUxg37c
        lShixi2ZzbITYagG6aNFHfFX3rOWrf1E/LNkUb333i0RZU1ZMwI4DQSAqXQJeEaA
        9OGvwaGC9kIsIr6HNnz4R2nRqyVEsnhS8NwDUCMi8POaillBqh+tE+ECgYEAxFzH
        Ixdvc9+1vmqDaPDWF0041486rPSErpAg9PYFqHSor6KxLwAPqNM5oZUFxgBDJtQZ
        88WW6FhKpjAVvCUi25xARv8NJfOiM+5LKXYVjrxY4ne7JiIM4z8iG7Heum92G4Fp
        LAOzoMA6MxEQWS5gCbu0y2MH4PWlwJsaRrBbOw0CgYA3PKZRMPhBlsqHSv1HJxiY
        n8exAEWtApaJVBdMtjIWhuG9sYVDhSf6cs1L0mhSBFxW+AneAtBjGcIJHO+cw0CG
        vAn67MGGvVzeuhnB7o+Lmz1MLJ5tjvMGdCTEm05uiM2Z47K/rgJQlc4pcRP3NHcj
        dnVb0WVt7cs3n53ngvJ2QQKBgCMKZ2LkuLfV0Qnk2gRtDddkqWMWJSNeExtPjwIH
        sSTJhJyrDLFVcnXvE5a5ECmwPEt+iA8PUImvz8puREKp4dmMvY+tzfvayTQ5LuJ8
        Nwacp8PqF9SLOP+IcZ69lABzCYGJC2qWUoS6KOiZ/+/aLbsu6ulsh6hmTajcRMke
        iXk1AoGAXf6eZ/AKWKwE1u1rAZNzB/lMXtAjTziNwAqdt+lBgkYmmVjGMcv/OHUw
        Jakriw6V9IsLEEstkzaoPIy6I8LRbrMUsveDbYxVe3nEUR7Im6GX16v1h9o9edBB
        vXRwwWaU4+MvWmTEmt5ckjI5xiT4Pt43huBi4NRjFN5R5OKOPV4=
        -----END RSA PRIVATE KEY-----
        """

    /// The public half of another RSA key.
    static let otherRSAPublic = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAtOUN5vr/dQhNmxrnf5XG
        Atc9DFYSm2Y8CpOTS95lzW7r2BtgGjww1iVSyaUH71D3LMoabSWrMbb12n0QIz/J
        Lr6sB2jzEDOA7bJbeSv2WlFy5rcL/Lpe+dICJZq/7NHi3FUfcE82hFs9aIUAosze
        7ZHzKXBy7pWu0oZWYBfpHbvvfouk/Rm+wn7CarC7Lpn4xdTdqEcJUGbykcJOmqk6
        guMSz7cbMnrCNcvTQZdUX7Ch9laNes5HsLffQjTj2C2MRINvr01UoJHN2HBFC2EN
        DzZv4OtLaUAJejeT6XQGuytpzNBR8Eoudgsne+bprxKrxm4KaPU3Mkg/10FBwr0i
        IQIDAQAB
        -----END PUBLIC KEY-----
        """

    /// On the curve P-256.
    static let ecPrivate = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq6lWTfOXHPEuUej0
        6Jl7PYOB7Wwq7zWfsg6OGjhG3f6hRANCAAQdabwY76fBg24a9o7lPFhXFn/0YWzC
        D1kDeIUE2xSgU2PEcwhw7uhbo7jJxXbxyNbrmYbTCHv5zSHb7MHkOzVj
        -----END PRIVATE KEY-----
        """

    /// The public half of `ecPrivate`.
    static let ecPublic = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHWm8GO+nwYNuGvaO5TxYVxZ/9GFs
        wg9ZA3iFBNsUoFNjxHMIcO7oW6O4ycV28cjW65mG0wh7+c0h2+zB5Ds1Yw==
        -----END PUBLIC KEY-----
        """

    /// A self-signed certificate for `ecPrivate`.
    static let ecCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBcjCCARegAwIBAgIUbayDIZUvdFkdISst6nV44Xis2mIwCgYIKoZIzj0EAwIw
        DTELMAkGA1UEAwwCZWMwIBcNMjYxMTIxMTAxODIzWhgPMjEyNjEwMjgxMDE4MjNa
        MA0xCzAJBgNVBAMMAmVjMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHWm8GO+n
        wYNuGvaO5TxYVxZ/9GFswg9ZA3iFBNsUoFNjxHMIcO7oW6O4ycV28cjW65mG0wh7
        +c0h2+zB5Ds1Y6NTMFEwHQYDVR0OBBYEFP7O0NiNP/l2lCxrmiaAF/+1FM4VMB8G
        A1UdIwQYMBaAFP7O0NiNP/l2lCxrmiaAF/+1FM4VMA8GA1UdEwEB/wQFMAMBAf8w
        CgYIKoZIzj0EAwIDSQAwRgIhAI/YL0WxmOua9OoN4s94NwtxJ4hkarDVqZhPAOcu
        JxzSAiEAxw6ktqLZTWrf1xXo3Ojz93qkdokR8tN9HtTTFukrzoA=
        -----END CERTIFICATE-----
        """

    /// `ecPrivate`, encrypted with a password.
    static let ecEncrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjzx+Eqscvp6wICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDL1ciJh0Xmiakd8pxMTFeAEgZBz
        khUh0nxi5aea3seFIwHeZXtiTzXQOSb7GTC70Xg7IpAiW9h2j/xvDvXbvm3GZsvH
        IJRL6CV1SU8FfCP8gCqgPVYaEBBh3RMuyQRoBGIiRXDhLxd9yXM4ELhK2TCMjYTr
        a68v406pkM4a0TUGvNJbH+zbiOjCS47lEGrFrHdaEgRiDct7WLLkXFS248iXpTs=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// Another P-256 key, preceded by its parameters.
    static let otherECPrivate = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIAPTziz9RMO+vX+BKfPLd89M+HHreVhbo1XXHvuVs8uzoAoGCCqGSM49
        AwEHoUQDQgAE0jnahXIegG7vV3QBqk0natXSTrfV6vdzMcjs08ipZvbFOank9imZ
        8RXU3Yjs2Vm9tBG7szk9zfppVgOb+85JJQ==
        -----END EC PRIVATE KEY-----
        """

    /// The public half of `otherECPrivate`.
    static let otherECPublic = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0jnahXIegG7vV3QBqk0natXSTrfV
        6vdzMcjs08ipZvbFOank9imZ8RXU3Yjs2Vm9tBG7szk9zfppVgOb+85JJQ==
        -----END PUBLIC KEY-----
        """
}
